import numpy as np
import pytest
import scipy.sparse as sp

from manyview import as_views


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_pointers_that_were_written_in_part_are_refused(kind):
    """As of a map of a file that another process still writes."""
    array = kind(np.eye(6))
    array.indptr[3:] = 0
    with pytest.raises(ValueError, match=r"view 'view0' is a broken sparse array: .* decrease"):
        as_views([array])
