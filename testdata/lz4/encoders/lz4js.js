// Reads raw bytes on stdin; writes blocks of 64 KiB, each a u32 length and an LZ4 block.
const lz4 = require("lz4js");
const data = require("fs").readFileSync(0);
for (let at = 0; at < data.length; at += 65536) {
  const src = data.subarray(at, at + 65536);
  const dst = lz4.makeBuffer(lz4.compressBound(src.length));
  const n = lz4.compressBlock(src, dst, 0, src.length, new Uint32Array(1 << 16));
  // lz4js answers 0 where it finds nothing to match: then the block is one of literals.
  const block = n > 0 ? Buffer.from(dst.slice(0, n)) : literals(src);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(block.length);
  process.stdout.write(Buffer.concat([length, block]));
}

function literals(src) {
  if (src.length < 15) return Buffer.concat([Buffer.from([src.length << 4]), src]);
  const more = src.length - 15;
  return Buffer.concat([Buffer.from([0xf0]), Buffer.alloc(Math.floor(more / 255), 255), Buffer.from([more % 255]), src]);
}
