"""Scikit-learn's own checks of an estimator, as far as they do not fit a single X.

The others build one 2-D array and call ``fit(X)`` with it, which is an error here by design: a
list of views is expected. What they look for is tested on views in ``test_estimator.py``.
"""

import pytest
import sklearn
from sklearn.utils import estimator_checks
from sklearn.utils.fixes import parse_version

from manyview import MMC

RUN = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_feature_names_out_error",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_transformers_unfitted",
    "check_valid_tag_types",
]

FIT_A_SINGLE_X = [
    "check_array_api_input",
    "check_clusterer_compute_labels_predict",
    "check_clustering",
    "check_complex_data",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_empty_data_messages",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_n_iter",
    "check_transformer_preserve_dtypes",
]


@pytest.mark.parametrize("name", RUN)
def test_check(name):
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip(f"scikit-learn {sklearn.__version__} has no {name}")
    check("MMC", MMC(n_clusters=2))


def test_every_check_is_run_or_listed_with_the_reason():
    if parse_version(sklearn.__version__) >= parse_version("1.10"):
        pytest.skip("the lists are those of scikit-learn before 1.10")
    checks = estimator_checks._yield_all_checks(MMC(n_clusters=2), legacy=True)
    names = {getattr(check, "func", check).__name__ for check in checks}
    assert not names - {*RUN, *FIT_A_SINGLE_X}
