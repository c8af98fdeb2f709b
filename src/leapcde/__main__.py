"""`python -m leapcde` is the command `leapcde`."""

from .cli import main

if __name__ == "__main__":
    main()
