//! Writes aprender's fixtures with three versions of its own crate: gen DIRECTORY.

mod fixture;
mod v20;
mod v25;
mod v72;

use std::path::PathBuf;

/// Values of all sizes, none special.
pub fn weights(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.0625 * (1.0 + (i / 32) as f32)).collect()
}

/// Bytes of ggml blocks of the given size, whose binary16 scales, at the given places, are plain.
pub fn blocks(n: usize, size: usize, scales: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for b in 0..n {
        let mut block: Vec<u8> = (0..size).map(|i| (b * 91 + i * 53 + i * i * 7) as u8).collect();
        for &at in scales {
            block[at] = (b * 19 + at) as u8;
            block[at + 1] = 0x28 + b as u8;
        }
        out.extend(block);
    }
    out
}

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("gen DIRECTORY"));
    v20::write(&dir);
    v25::write(&dir);
    v72::write(&dir);
}
