"""`python -m leapcde` is the command `leapcde`."""

from leapcde.cli.main import main

if __name__ == "__main__":
    main()
