//! aprender 0.25.0: the magic "APR\0", its first dtype ids, and the JSON container.

use crate::fixture::{readable, refused, Tensor};
use crate::weights;
use aprender25::format::v2::{AprV2Metadata, AprV2Reader, AprV2Writer, TensorDType};
use aprender25::serialization::apr::{AprWriter, Compression};
use std::path::Path;

pub fn write(dir: &Path) {
    first(dir);
    for (file, compression) in [("json-lz4.apr", Compression::Lz4), ("json-zstd.apr", Compression::Zstd)] {
        let mut w = AprWriter::new().with_compression(compression);
        w.set_metadata("model_type", "test".into());
        w.add_tensor_f32("w", vec![4, 8], &[0.5; 32]);
        refused(dir, file, &w.to_bytes().unwrap(), "apr2");
    }
}

fn first(dir: &Path) {
    let mut md = AprV2Metadata::new("first");
    md.architecture = Some("llama".into());
    md.rope_theta = Some(10000.0);
    md.custom.insert("tokens".into(), serde_json::json!(["a", "é", "\u{0}"]));
    let mut w = AprV2Writer::new(md);

    let small: Vec<i8> = vec![-128, -1, 0, 1, 127];
    let wide: Vec<i64> = vec![i64::MIN, -1, 0, (1 << 24) + 1, i64::MAX];
    let int: Vec<i32> = vec![i32::MIN, -1, 0, (1 << 24) + 1, i32::MAX];
    let double: Vec<f64> = vec![0.1, -1e300, 1e-300, 3.0, -0.0];
    let brain: Vec<u16> = vec![0x3f80, 0xc049, 0x0001, 0x7f7f, 0x8000];
    w.add_f32_tensor("f32", vec![2, 3, 4], &weights(24));
    w.add_f32_tensor("scalar", vec![], &[2.5]);
    w.add_f32_tensor("empty", vec![0, 7], &[]);
    w.add_f16_tensor("f16", vec![7], &weights(7));
    w.add_tensor("bf16", TensorDType::BF16, vec![5], brain.iter().flat_map(|v| v.to_le_bytes()).collect());
    w.add_tensor("f64", TensorDType::F64, vec![5], double.iter().flat_map(|v| v.to_le_bytes()).collect());
    w.add_tensor("i32", TensorDType::I32, vec![5], int.iter().flat_map(|v| v.to_le_bytes()).collect());
    w.add_tensor("i64", TensorDType::I64, vec![5], wide.iter().flat_map(|v| v.to_le_bytes()).collect());
    w.add_tensor("i8", TensorDType::I8, vec![5], small.iter().map(|&v| v as u8).collect());
    w.add_tensor("u8", TensorDType::U8, vec![3], vec![0, 128, 255]);
    w.add_q4_tensor("q4", vec![5, 20], &weights(100));
    w.add_q8_tensor("q8", vec![5, 20], &weights(100));
    let bytes = w.write().unwrap();

    let r = AprV2Reader::from_bytes(&bytes).unwrap();
    let tensors: Vec<Tensor> = r.tensor_names().iter().map(|name| {
        let e = r.get_tensor(name).unwrap();
        Tensor {
            name: e.name.clone(),
            dtype: match e.dtype {
                TensorDType::Q4 => "APR_Q4".into(),
                TensorDType::Q8 => "APR_Q8".into(),
                d => d.name().to_uppercase(),
            },
            shape: e.shape.clone(),
            offset: r.header().data_offset + e.offset,
            stored: r.get_tensor_data(name).unwrap().to_vec(),
            values: match *name {
                "bf16" => brain.iter().map(|&v| f32::from_bits(u32::from(v) << 16)).collect(),
                "f64" => double.iter().map(|&v| v as f32).collect(),
                "i32" => int.iter().map(|&v| v as f32).collect(),
                "i64" => wide.iter().map(|&v| v as f32).collect(),
                "i8" => small.iter().map(|&v| v as f32).collect(),
                "u8" => vec![0.0, 128.0, 255.0],
                _ => r.get_tensor_as_f32(name).unwrap(),
            },
        }
    }).collect();
    let md = serde_json::from_slice(&r.metadata().to_json().unwrap()).unwrap();
    readable(dir, "first.apr", &bytes, md, &tensors, &[]);
}
