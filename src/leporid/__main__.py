"""`python -m leporid`."""

from leporid.cli import main

if __name__ == "__main__":
    main()
