"""The command line as a module: ``python -m comp_comm``, and under launchers that take one."""

from comp_comm.cli.main import main

if __name__ == "__main__":
    main()
