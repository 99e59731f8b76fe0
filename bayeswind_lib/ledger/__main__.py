"""`python -m bayeswind_lib.ledger` computes the stored records again (`make records`)."""

from bayeswind_lib.ledger import make_records

if __name__ == "__main__":
    make_records()
