"""Models. Importing the package makes every model of the library known by its name, in the order of the paper's tables."""

# isort: skip_file
from leapcde.models import rnn as rnn
from leapcde.models import gru_ode as gru_ode
from leapcde.models import ode_rnn as ode_rnn
from leapcde.models import latent_ode as latent_ode
from leapcde.models import ace_node as ace_node
from leapcde.models import ncde as ncde
from leapcde.models import ancde as ancde
from leapcde.models import leap as leap
from leapcde.models import leap_plus as leap_plus
from leapcde.models import variants as variants
