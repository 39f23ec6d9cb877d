"""`python -m trflm` is `trf`."""

from trflm.cli import main

if __name__ == "__main__":
    main()
