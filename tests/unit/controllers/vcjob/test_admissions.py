"""What Volcano refuses at admission, the controller finds as well."""

from __future__ import annotations

import pytest

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.api.types.volcano_job import VolcanoJob
from arranger.controllers.vcjob.validation import first_problem
from tests.unit.controllers.vcjob.admissions import JOBS, Admission


@pytest.mark.parametrize("admission", JOBS.values(), ids=JOBS)
def test_the_controller_refuses_what_volcano_refuses(admission: Admission) -> None:
    try:
        problem = first_problem(convert_object(admission.manifest(), VolcanoJob, strict=False))
    except ParseError as error:
        problem = str(error)
    assert bool(problem) is (admission.refused and not admission.left), problem
