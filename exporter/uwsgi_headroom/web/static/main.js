// Shows one server or all servers, as the HTML says.

import { el } from "./dom.js";
import * as overview from "./overview.js";
import * as server from "./server.js";

const main = el("main", {});
document.body.append(main);
if (document.body.dataset.path) server.show(main, document.body.dataset);
else overview.show(main);
