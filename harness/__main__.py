"""``python -m harness`` and the zipapp's entry point."""

import sys

from harness import compiled

compiled.use()  # before any other module is imported

from harness.cli.main import main  # noqa: E402

sys.exit(main())
