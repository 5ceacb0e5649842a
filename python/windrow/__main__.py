"""python -m windrow doctor: what was detected on this machine."""
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
    sys.exit(main(sys.argv[1:]))
