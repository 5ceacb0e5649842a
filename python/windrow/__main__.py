"""python -m windrow doctor: what was detected on this machine."""
import os
import sys

import windrow


def main(arguments):
    if arguments == ["doctor"]:
        print(f"windrow {windrow.__version__}, Python {sys.version.split()[0]}", flush=True)
        windrow.doctor()
        return 0
    if arguments == ["--version"]:
        print(windrow.__version__)
        return 0
    print("usage: python -m windrow doctor | --version", file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # | head: nobody reads on, and Python would complain once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
