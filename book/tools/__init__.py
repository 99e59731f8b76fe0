"""What builds, prints, checks and publishes the book. `python book/tools` lists the commands."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the repository
