from trflm.learning.schedules import stopped_rising


def test_stops_when_the_smoothed_value_has_not_risen():
    assert not stopped_rising([1, 2, 3], window=2, gain=0)  # too little seen
    assert not stopped_rising([1, 2, 3, 4], window=2, gain=0)
    assert stopped_rising([3, 4, 4, 3], window=2, gain=0)
    assert stopped_rising([1, 2, 3, 4], window=2, gain=2.5)
    assert not stopped_rising([4, 3, 2, 1], window=0, gain=0)  # never
