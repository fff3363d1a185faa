"""The result in fio's whole output, as tests of fio's own output need it."""

from labctl.fio.results import FioResult, last_document, result_of


def final_result(text: str, drive: str = "") -> FioResult | None:
    last = last_document(text)
    return None if last is None else result_of(last, drive)
