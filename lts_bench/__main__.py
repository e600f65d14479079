"""``python -m lts_bench`` is the command ``lts-bench``."""

from lts_bench.cli import main

main()
