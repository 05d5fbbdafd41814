"""Public functions that the oracles' tables do not name, with what holds them: where their values are compared."""

from __future__ import annotations

OPERATIONS = "tests/python/test_operations.py tests/python/test_function.py tests/python/test_programs.py"
EXACT = "tests/python/test_ties.py"  # compared with NumPy's at all kinds of numbers
LANGUAGE = "tests/language tests/programs tests/dual tests/ad"

# Files, and the names whose values these compare: results are exact, or have no derivative, or the function applies
# another one.
ELSEWHERE: dict[str, dict[str, str]] = {
    "numpy": {
        OPERATIONS: """all any arange argmax argmin argsort asarray astype broadcast_to concatenate cond count_nonzero
            diag expand_dims eye filter flip full full_like grad hist isfinite isinf isnan jvp logical_and logical_not
            logical_or loop map moveaxis ones ones_like ravel reduce repeat reshape roll scan scatter squeeze
            stack swapaxes take transpose tril triu value_and_grad vjp vstack while_loop with_vjp zeros zeros_like""",
        "tests/python/test_errors.py": "sized",
        EXACT: "equal greater greater_equal less less_equal not_equal nextafter",
    },
    "linalg": {"tests/library/test_linalg.py": "eye"},
    "optim": {
        "tests/library/test_optim.py": "adam_options lbfgs_options lbfgs newton_options newton_cg minimum_with",
    },
    "special": {"tests/library/test_special.py": "constant"},
    # Integers and bits are exact; distributions are compared with SciPy's, and derivatives by shapes with those of its
    # distribution functions.
    "random": {
        "tests/library/test_random.py": """block key bits64 keys uniform uniform_open below bernoulli normal
            exponential laplace logistic gumbel gamma beta dirichlet student_t categorical poisson permutation shuffle
            multivariate_normal""",
        "tests/hosts/test_library.py": "fold_in bits32",
        "futad/library/random.fut": "log_gamma",  # `gamma` is its exponential
    },
    "prelude": {
        LANGUAGE: """map1 map2 map3 map4 map5 scatter scatter_2d scatter_3d spread any all and or filter partition
            partition2 flatmap flatmap' jvp jvp2 vjp vjp2 jmp jmp2 mjp mjp2 with_vjp with_vjp_tape with_inverse invert
            length null iota indices replicate rep tabulate tabulate_2d tabulate_3d take drop split head last tail init
            reverse concat rotate transpose flatten flatten_3d flatten_4d unflatten unflatten_3d unflatten_4d copy
            manifest sized zip zip2 zip3 zip4 zip5 unzip unzip2 unzip3 unzip4 unzip5 flip curry uncurry const id opaque
            trace break not par r32 t32 r64 t64 ++ |> <| >-> <-<""",
    },
}
# Names of other names.
SAME = {"numpy": {"abs": "absolute", "array": "asarray", "mod": "remainder", "true_divide": "divide"}}
# Two names of one case.
ALSO = {"optim.adam_start": "optim.adam_step adam_start"}
