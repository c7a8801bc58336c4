"""`python -m nearer` is the command line."""

from nearer.app.cli import main

if __name__ == "__main__":
    main()
