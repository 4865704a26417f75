// The conformance suite imports `fs.globSync`, which it needs for none of the clients' scenarios, and which Node has since 22:
// `node --import old_node.mjs SUITE` runs it with an older one.
import fs from "node:fs";
import { register } from "node:module";

if (!fs.globSync) {
  const hook = `
    export const load = async (url, context, next) => {
      const loaded = await next(url, context);
      if (!url.includes("/conformance/dist/")) return loaded;
      const source = String(loaded.source);
      const name = /globSync as (\\w+),/.exec(source)?.[1];
      if (!name) return loaded;
      return { ...loaded, source: source.replace("globSync as " + name + ",", "") + "; function " + name + "() { return []; }" };
    };`;
  register("data:text/javascript," + encodeURIComponent(hook));
}
