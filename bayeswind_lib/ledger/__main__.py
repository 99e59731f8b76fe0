"""`python -m bayeswind_lib.ledger` computes the stored records again (`make records`)."""

import argparse

from bayeswind_lib.ledger import make_records

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bayeswind_lib.ledger", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these records, for example networks")
    parser.add_argument(
        "--keep", action="store_true", help="do not score networks again whose weights are unchanged"
    )
    chosen = parser.parse_args()
    make_records(names=chosen.names, keep=chosen.keep)
