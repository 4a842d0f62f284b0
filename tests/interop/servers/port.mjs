// Loaded before a server that does not say on which port it listens: with this it says so, and can be given port 0.
import { Server } from 'node:net';

const { listen } = Server.prototype;
Server.prototype.listen = function (...given) {
  this.once('listening', () => console.error(`listening on http://127.0.0.1:${this.address().port}/mcp`));
  return listen.apply(this, given);
};
