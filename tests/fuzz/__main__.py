"""Runs stories of documents from another beginning: `python -m tests.fuzz COUNT [FIRST]`. Prints each kind of failure.

COUNT is in documents; FIRST is the number of the first story, at random if it is not given.
"""

import random
import sys
import traceback

from tests.fuzz.faces import DOCUMENTS, Story


def main() -> int:
    """Run, and return 1 if something failed."""
    stories = int(sys.argv[1]) // DOCUMENTS
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**40)
    failures: dict[tuple[object, ...], int] = {}
    readable = 0
    for number in range(first, first + stories):
        story = Story(number)
        try:
            story.run()
        except Exception as error:  # noqa: BLE001 - all of them are wanted
            place = traceback.extract_tb(error.__traceback__)[-1]
            key = type(error).__name__, place.filename, place.lineno
            failures[key] = failures.get(key, 0) + 1
            if failures[key] == 1:
                print(f"story {number}:", *traceback.format_exception(error), sep="\n", flush=True)
        readable += story.readable
    print(f"stories {first} to {first + stories - 1}: {readable} documents read of {stories * DOCUMENTS}")
    for key, count in failures.items():
        print(f"{count} times:", *key)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
