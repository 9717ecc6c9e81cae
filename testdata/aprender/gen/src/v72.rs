//! aprender-core 0.72.3: today's dtype ids, the streaming writer, flags, repeated keys.

use crate::fixture::{readable, refused, Tensor};
use crate::{blocks, weights};
use aprender72::format::v2::{AprV2Flags, AprV2Metadata, AprV2Reader, AprV2StreamingWriter, AprV2Writer, TensorDType};
use aprender72::format::{save, AprV2DequantExt, ModelType, SaveOptions};
use std::path::Path;

pub fn write(dir: &Path) {
    now(dir);
    streaming(dir);
    lz4flag(dir);
    repeated(dir);
    let path = dir.join("aprn.apr");
    save(&vec![1.0_f32, 2.0], ModelType::LinearRegression, &path, SaveOptions::default()).unwrap();
    refused(dir, "aprn.apr", &std::fs::read(&path).unwrap(), "unknown");
}

fn brain(n: usize) -> Vec<u8> {
    weights(n).iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect()
}

fn now(dir: &Path) {
    let mut md = AprV2Metadata::new("now");
    md.hf_architecture = Some("Qwen2ForCausalLM".into());
    md.rms_norm_eps = Some(1e-6);
    let mut w = AprV2Writer::new(md);
    w.set_header_flags(AprV2Flags::new().with(AprV2Flags::QUANTIZED).with(AprV2Flags::HAS_VOCAB));
    w.add_f32_tensor("model.norm.weight", vec![6], &weights(6));
    w.add_f16_tensor("f16", vec![2, 9], &weights(18));
    w.add_tensor("bf16", TensorDType::BF16, vec![3, 3], brain(9));
    w.add_q4_tensor("q4", vec![3, 50], &weights(150));
    w.add_q4_tensor("q4.blocks", vec![8, 32], &weights(256));
    w.add_q4_tensor("q4.empty", vec![0], &[]);
    w.add_q8_tensor("q8", vec![3, 50], &weights(150));
    w.add_q8_tensor("q8.empty", vec![0], &[]);
    w.add_q4k_raw_tensor("q4k", vec![2, 512], blocks(4, 144, &[0, 2]));
    w.add_q6k_raw_tensor("q6k", vec![3, 256], blocks(3, 210, &[208]));
    // Scales that aprender's reader takes for 0: NaN, infinite, subnormal; and the least that it does not.
    let mut odd = blocks(6, 18, &[]);
    for (b, scale) in [0x7e00_u16, 0xfc00, 0x03ff, 0x83ff, 0x0400, 0x8400].into_iter().enumerate() {
        odd[b * 18..][..2].copy_from_slice(&scale.to_le_bytes());
    }
    w.add_tensor("q4.scales", TensorDType::AprQ4, vec![192], odd);
    put(dir, "now.apr", &w.write().unwrap(), &[]);
}

fn streaming(dir: &Path) {
    let mut w = AprV2StreamingWriter::new(AprV2Metadata::new("streaming")).unwrap();
    w.add_f32_tensor("z.first", vec![10], &weights(10)).unwrap();
    w.add_q4_tensor("m.second", vec![40], &weights(40)).unwrap();
    w.add_f16_tensor("a.third", vec![40], &weights(40)).unwrap();
    let path = dir.join("streaming.apr");
    w.finalize(&path).unwrap();
    put(dir, "streaming.apr", &std::fs::read(&path).unwrap(), &[]);
}

fn lz4flag(dir: &Path) {
    let mut w = AprV2Writer::new(AprV2Metadata::new("lz4flag"));
    w.with_lz4_compression();
    w.add_f32_tensor("w", vec![10], &weights(10));
    put(dir, "lz4flag.apr", &w.write().unwrap(), &["flags"]);
}

/// A field of the metadata's struct and a custom key of the same name are both written.
fn repeated(dir: &Path) {
    let mut md = AprV2Metadata::new("repeated");
    md.custom.insert("license".into(), serde_json::json!("MIT"));
    let mut w = AprV2Writer::new(md);
    w.add_f32_tensor("w", vec![2], &weights(2));
    put(dir, "repeated.apr", &w.write().unwrap(), &[]);
}

fn put(dir: &Path, file: &str, bytes: &[u8], findings: &[&str]) {
    let r = AprV2Reader::from_bytes(bytes).unwrap();
    let tensors: Vec<Tensor> = r.tensor_names().iter().map(|name| {
        let e = r.get_tensor(name).unwrap();
        let stored = r.get_tensor_data(name).unwrap().to_vec();
        Tensor {
            name: e.name.clone(),
            dtype: e.dtype.to_string(),
            shape: e.shape.clone(),
            offset: r.header().data_offset + e.offset,
            // The reader has no values for an empty APR_Q8 tensor.
            values: if stored.is_empty() { vec![] } else { r.get_tensor_as_f32(name).unwrap() },
            stored,
        }
    }).collect();
    let md = serde_json::from_slice(&r.metadata().to_json().unwrap()).unwrap();
    readable(dir, file, bytes, md, &tensors, findings);
}
