// Identifies a server in one line, to distinguish servers of the same name.

import * as format from "./format.js";

/** The parts of a server's identity that are known: [name, value]. */
export function parts({ identity }) {
  const { host, application, configuration_file: file, working_directory: directory, pid, uptime, emperor_pid: emperor } = identity ?? {};
  return [
    ["host", host],
    ["application", application],
    ["configuration", file],
    ["directory", directory],
    ["master", pid && `PID ${pid}`],
    ["up", uptime === null || uptime === undefined ? null : format.duration(uptime)],
    ["vassal of", emperor && `PID ${emperor}`],
  ].filter(([, value]) => value);
}

/** The version, the host and the time since the start, for the first line of the page; down, it is not up. */
export function brief({ version, identity, address, state }) {
  const { host, uptime = null } = identity ?? {};
  const which = [version ? `uWSGI ${version}` : address, host && `on ${host}`].filter(Boolean).join(" ");
  return [which, uptime !== null && state !== "down" && `up ${format.duration(uptime)}`].filter(Boolean).join(", ");
}

/** The known parts as one line of text. */
export const line = (server) => parts(server).map(([name, value]) => `${name} ${value}`).join(" · ");
