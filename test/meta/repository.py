"""Where the repository lies and which files it holds, for the meta tests."""
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("OFFLOAD_BUILD", ROOT / "build" / "release"))


def files(*suffixes):
    """Tracked and new files, ignored ones left out, in name order."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    paths = [ROOT / name for name in sorted(filter(None, listing.split("\0")))]
    return [p for p in paths
            if p.is_file() and (not suffixes or p.suffix in suffixes)]


def relative(path):
    return path.relative_to(ROOT).as_posix()
