"""Makes the files of a bundle whole again; started by script/gpu-test and
bench/performance.

    python3 gpu_unpack.py FOLDER

A folder that is whole already, or no bundle, is left as it is."""
import json
import shutil
import sys
import zlib
from pathlib import Path


def is_bundle(folder):
    return (folder / "packing.json").exists()


def unpack(bundle):
    if not is_bundle(bundle):
        return
    packing = json.loads((bundle / "packing.json").read_text())
    for name, mode in packing["packed"].items():
        path, packed = bundle / name, bundle / (name + ".z")
        if packed.exists():
            path.write_bytes(zlib.decompress(packed.read_bytes()))
            path.chmod(mode)
            packed.unlink()
    for name, source in packing["copies"].items():
        if not (bundle / name).exists():
            shutil.copy(bundle / source, bundle / name)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]).resolve())
