"""Checks models with onnx.checker's full check: structure, types and shapes.

Usage: onnx_check.py MODEL... (ONNX or .off files, or .onnxtxt text)"""
import sys

import onnx


def check(path):
    if path.endswith(".onnxtxt"):
        with open(path, encoding="utf-8") as text:
            onnx.checker.check_model(onnx.parser.parse_model(text.read()),
                                     full_check=True)
    else:
        # By path, so that external data is looked for beside the file.
        onnx.checker.check_model(path, full_check=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: onnx_check.py MODEL...")
    for model in sys.argv[1:]:
        try:
            check(model)
        except Exception as error:
            sys.exit("%s: %s" % (model, error))
