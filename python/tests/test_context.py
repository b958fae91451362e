"""Defaults of a thread."""

import threading

import pytest

import microscale as ms
from microscale._core import set_defaults


def defaults():
    now = set_defaults("auto", 0, None)
    set_defaults(*now)
    return now


def test_one_object_may_be_entered_again():
    one = ms.context(threads=1)
    with ms.context(threads=3):
        with one, ms.context(threads=2), one:
            assert defaults()[1] == 1
        assert defaults()[1] == 3
    assert defaults() == ("auto", 0, None)


def test_by_two_threads_at_a_time():
    one, both = ms.context(threads=1), threading.Barrier(2)
    seen = []

    def enter(outer):
        with ms.context(threads=outer):
            with one:
                both.wait(60)
            both.wait(60)
            seen.append((outer, defaults()[1]))

    threads = [threading.Thread(target=enter, args=(outer,)) for outer in (5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [(5, 5), (6, 6)]


def test_it_decorates():
    assert ms.context(threads=1)(defaults)()[1] == 1
    assert repr(ms.context(threads=1)) == "context(backend='auto', threads=1, stream=None)"


def test_what_is_refused_changes_nothing():
    for words in ({"backend": "none"}, {"threads": -1}, {"stream": "s"}):
        with pytest.raises((ValueError, TypeError)), ms.context(**words):
            pass
    assert defaults() == ("auto", 0, None)
