"""Paths X through observations. Importing the package makes every interpolation of the library known by its name."""

# isort: skip_file
from leapcde.paths import natural as natural
from leapcde.paths import linear as linear
from leapcde.paths import hermite as hermite
from leapcde.paths import rectilinear as rectilinear
