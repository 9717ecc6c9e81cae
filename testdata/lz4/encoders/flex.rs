// Reads raw bytes on stdin; writes blocks of 64 KiB, each a u32 length and an LZ4 block.
use std::io::{self, Read, Write};
fn main() {
    let mut data = Vec::new();
    io::stdin().read_to_end(&mut data).unwrap();
    let mut out = Vec::new();
    for chunk in data.chunks(65536) {
        let b = lz4_flex::block::compress(chunk);
        out.extend_from_slice(&(b.len() as u32).to_le_bytes());
        out.extend_from_slice(&b);
    }
    io::stdout().write_all(&out).unwrap();
}
