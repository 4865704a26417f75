// For programs of others that listen on all interfaces: `node --import loopback.mjs PROGRAM`. They listen on loopback alone, and say on
// which port.
import net from "node:net";

net.Server.prototype.listen = function (port, ...rest) {
  const done = rest.find((one) => typeof one === "function");
  if (done) this.once("listening", done);
  this.once("listening", () => process.stdout.write(`\nport ${this.address().port}\n`));
  // Without a look-up, as where no host is named: some ask for the address at once.
  this._listen2("127.0.0.1", Number(port), 4, 511, undefined, 0);
  return this;
};
