"""The page that the examiner and a timed worker share."""

import os
import time

import pytest

from harness.mailbox import ASK, GO, READY, SIZE, Mailbox, create


@pytest.fixture
def pages():
    descriptor = create()
    return Mailbox(os.dup(descriptor)), Mailbox(descriptor)


def never():
    return False


def test_two_processes_take_turns(pages):
    ours, theirs = pages
    pid = os.fork()
    if pid == 0:
        told = theirs.wait(GO, never) and theirs.data() == b"question"
        theirs.post(ASK, b"answer" if told else b"")
        os._exit(0)
    ours.post(GO, b"question")
    assert ours.wait(ASK, never)
    assert ours.data() == b"answer"
    os.waitpid(pid, 0)


def test_who_will_not_answer_is_not_waited_for(pages):
    ours, _ = pages
    until = time.monotonic() + 0.05
    assert not ours.wait(READY, lambda: time.monotonic() > until)


def test_the_last_word_counts(pages):
    ours, theirs = pages

    def gone():
        theirs.post(READY)  # between the look at the page and this question
        return True

    assert ours.wait(READY, gone)


def test_what_was_said_before_does_not_count(pages):
    ours, theirs = pages
    theirs.post(READY)
    ours.clear()
    assert not ours.wait(READY, lambda: True)


def test_a_length_that_is_none_reads_the_page_at_most(pages):
    ours, theirs = pages
    theirs._page[8:16] = b"\xff" * 8
    assert len(ours.data()) == SIZE - 16


def test_nobody_makes_the_page_shorter():
    descriptor = create()
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)
