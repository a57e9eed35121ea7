"""What the names of mutants say."""

from __future__ import annotations


def mangled_function_of(mutant: str) -> str:
    """The function that a mutant is of, as mutmut names it."""
    return mutant.partition("__mutmut_")[0]


def module_of(mutant: str) -> str:
    """The module that a mutant is of."""
    return mangled_function_of(mutant).rpartition(".")[0]


def function_of(mutant: str) -> str:
    """The function that a mutant is of, with its module: ``package.module.Class.function``."""
    function = mangled_function_of(mutant).rpartition(".")[2]
    return f"{module_of(mutant)}.{function.removeprefix('x').lstrip('_ǁ').replace('ǁ', '.')}"
