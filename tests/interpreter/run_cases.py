"""Run every `case_*` function of a file on the repaired interpreter; prints JSON, name -> error or null."""

import importlib.util
import json
import os
import sys
import traceback
import warnings

os.environ["TRITON_INTERPRET"] = "1"

from harness.interpreter import install


def main(path: str) -> None:
    install()
    warnings.simplefilter("error", RuntimeWarning)
    spec = importlib.util.spec_from_file_location("cases", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["cases"] = module
    spec.loader.exec_module(module)
    results = {}
    for name in [name for name in vars(module) if name.startswith("case_")]:
        try:
            getattr(module, name)()
            results[name] = None
        except Exception:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
