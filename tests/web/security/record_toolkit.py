"""Records what the Prometheus exporter toolkit does with the files in files.json, in `toolkit.json`.

cd tests/web/security/toolkit && go mod init reference && go mod tidy && go build -o /tmp/reference .
python -m tests.web.security.record_toolkit /tmp/reference
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.web.security.secure_server import read_files, write_certificates, write_with_certificates

HERE = Path(__file__).parent


def _main(program: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_certificates(directory)
        paths = [str(write_with_certificates(*file, directory)) for file in sorted(read_files().items())]
        output = subprocess.run([program, *paths], check=True, capture_output=True, text=True).stdout.replace(
            name, "DIRECTORY"
        )
    versions, *outcomes = map(json.loads, output.splitlines())
    record = {**versions, "files": {outcome.pop("file"): outcome for outcome in outcomes}}
    (HERE / "toolkit.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1])
