"""Every configuration that an autotuner may choose is held to the contract, whichever would have been the fastest."""

import re

import pytest

SOURCE = '''
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": size}) for size in (64, 128, 256, 512, 1024)]
KEPT = {}


@triton.autotune(CONFIGS, key=["n"], PRUNING)
@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    sum = tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside)
    if BLOCK == WRONG:
        sum = sum * 0.5
    tl.store(z_ptr + at, sum, mask=inside)


def vec_add(x, y):
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if n := z.numel():
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.contiguous(), y.contiguous(), z, n)
        KEPT.setdefault(tuple(x.shape), kernel.best_config)
    return z
'''
PRUNING = 'prune_configs_by={"early_config_prune": lambda configs, named, **_: [c for c in configs if c.kwargs["BLOCK"] != 512]}'


@pytest.fixture
def graded(grade, device, tmp_path):
    def of(**put):
        source = SOURCE
        for name, text in put.items():
            source = re.sub(rf"\b{name}\b", lambda _, text=text: text, source)
        (tmp_path / "vec_add.py").write_text(source)
        options = ["--device", device, "--no-timing", "--check", "aligned"]
        (result,) = grade("ch02.vec_add", "--from", str(tmp_path / "vec_add.py"), *options).document["exercises"]
        return {check["name"]: check for check in result["checks"]}["aligned"]

    return of


@pytest.mark.parametrize("wrong", [64, 128, 256, 512, 1024])
def test_one_wrong_configuration_of_five_fails(graded, wrong):
    check = graded(WRONG=str(wrong), PRUNING="")
    assert check["status"] == "failed"
    (choice,) = check["counterexample"]["configurations"]
    assert choice.startswith(f"kernel with BLOCK: {wrong},")


def test_right_configurations_pass(graded):
    assert graded(WRONG="0", PRUNING="")["status"] == "passed"


def test_a_configuration_that_is_pruned_is_not_asked_for(graded):
    assert graded(WRONG="512", PRUNING=PRUNING)["status"] == "passed"
    assert graded(WRONG="1024", PRUNING=PRUNING)["status"] == "failed"
