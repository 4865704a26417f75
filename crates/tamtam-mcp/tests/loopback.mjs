// For servers of others that listen on all interfaces: `node --import loopback.mjs SERVER`. They listen on loopback alone, and say on
// which port.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const done = rest.find((one) => typeof one === "function");
  this.once("listening", () => process.stdout.write(`\nport ${this.address().port}\n`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, done);
};
