//! What stands beside a fixture: its index and values, as the crate that wrote it reads them.

use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::{fs, path::Path};

pub struct Tensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<usize>,
    pub offset: u64, // from the start of the file
    pub stored: Vec<u8>,
    pub values: Vec<f32>,
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|c| format!("{c:02x}")).collect()
}

fn tensor(t: &Tensor) -> Value {
    let sum = hex(&Sha256::digest(&t.stored));
    let values: Vec<u8> = t.values.iter().flat_map(|v| v.to_le_bytes()).collect();
    json!({
        "name": t.name, "dtype": t.dtype, "shape": t.shape, "offset": t.offset,
        "stored": t.stored.len(), "raw": t.stored.len(), "encoding": "raw", "zero_copy": true,
        "stored_sha256": sum, "raw_sha256": sum,
        "f32_sha256": hex(&Sha256::digest(&values)),
    })
}

/// Writes a file that can be read, and what is in it.
pub fn readable(dir: &Path, file: &str, bytes: &[u8], metadata: Value, tensors: &[Tensor], findings: &[&str]) {
    write(dir, file, bytes, json!({
        "file": file, "format": "apr2", "version": "2.0 (64-byte header)", "size": bytes.len(),
        "metadata": metadata, "tensors": tensors.iter().map(tensor).collect::<Vec<_>>(),
        "verify": "ok", "findings": findings,
    }));
}

/// Writes a file that must be refused for its magic.
pub fn refused(dir: &Path, file: &str, bytes: &[u8], format: &str) {
    write(dir, file, bytes, json!({
        "file": file, "format": format, "size": bytes.len(), "error": {"field": "magic", "offset": 0},
    }));
}

fn write(dir: &Path, file: &str, bytes: &[u8], expected: Value) {
    fs::write(dir.join(file), bytes).unwrap();
    let path = dir.join(file).with_extension("json");
    fs::write(path, serde_json::to_string_pretty(&expected).unwrap() + "\n").unwrap();
}
