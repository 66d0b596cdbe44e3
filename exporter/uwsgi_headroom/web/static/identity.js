// Which server this is, in one line: what tells it from another server of the same name.

import * as format from "./format.js";

/** What is visible of it, by name. */
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

/** The same as text. */
export const line = (server) => parts(server).map(([name, value]) => `${name} ${value}`).join(" · ");
