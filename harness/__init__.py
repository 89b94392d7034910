"""The engine behind `grade`: it knows how to grade, and no chapter by name.

Data flows one way::

    course -> submission -> worker -> checks -> timing -> score -> record -> views

`harness.grading` is what graders are written with; `harness.worker` is the process in which a submission runs;
`harness.examiner` decides. Only `harness.cli` prints, exits or reads the environment.
"""
