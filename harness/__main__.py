"""``python -m harness`` and the zipapp's entry point."""

import sys

from harness.cli.main import main

sys.exit(main())
