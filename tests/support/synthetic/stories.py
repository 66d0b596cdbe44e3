"""Synthetic histories with a name: each has one thing that a review has to find."""

from msgspec.structs import replace

from tests.support.synthetic.plan import UNTIL, History, Service, Step

STORY = Service(
    name="shop",
    servers=6,
    workers=4,
    threads=8,
    peak=83.0,
    shares=(0.43, 0.19, 0.19, 0.19),
    cpu=0.040,
    wait=0.179,
    cpus=4.0,
    routes={"/cart": 0.5, "/product/<id>": 0.3, "/": 0.2},
)
"""Six machines with 192 threads, of which 83 are in service at peak; one worker of four takes 43 % of the requests, so
its interpreter is the first limit."""


def story(days: float = 30.0) -> History:
    """The story that this project grew out of, without growth."""
    return History(services=(STORY,), days=days)


def interrupted(days: float = 30.0) -> History:
    """Reloads, a restart of the exporters, and four days and a half without samples."""
    service = replace(STORY, reloads=(3.4, 12.7), restarts=(8.2,), missing=((15.0, 19.0), (22.5, 23.0)))
    return History(services=(service,), days=days)


def young() -> History:
    """Too little history for any forecast: the last hour before 15:00 on a Friday."""
    return History(services=(replace(STORY, name="young"),), days=1 / 24, until=UNTIL - 57 * 3600)


def quarter() -> History:
    """A labelled quarter of a year for examples: the story with growth, a deployment, a holiday, a gap and reloads,
    and a second service."""
    service = replace(
        STORY,
        growth=0.06,
        steps=(Step(day=33.375, factor=1.10),),
        holidays=(26,),
        reloads=(12.4, 33.37, 61.6),
        restarts=(33.38,),
        missing=((47.25, 47.75),),
    )
    search = Service(name="search", servers=2, workers=2, threads=16, peak=9.0, cpu=0.012, wait=0.06, growth=0.02)
    return History(services=(service, search), days=91.0, until=UNTIL, zone="Europe/Zurich")
