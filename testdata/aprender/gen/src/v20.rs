//! aprender 0.20.0: the 64-byte header under the magic "APR2".

use crate::fixture::{readable, Tensor};
use crate::weights;
use aprender20::format::v2::{AprV2Metadata, AprV2Reader, AprV2Writer, TensorDType};
use std::path::Path;

pub fn write(dir: &Path) {
    let mut md = AprV2Metadata::new("magic");
    md.name = Some("APR2, then 64 bytes".into());
    let mut w = AprV2Writer::new(md);
    w.add_f32_tensor("w", vec![3, 5], &weights(15));
    let ids: Vec<u8> = (0..40).collect();
    w.add_tensor("ids", TensorDType::U8, vec![40], ids.clone());
    let bytes = w.write().unwrap();

    let r = AprV2Reader::from_bytes(&bytes).unwrap();
    let tensors: Vec<Tensor> = r.tensor_names().iter().map(|name| {
        let e = r.get_tensor(name).unwrap();
        Tensor {
            name: e.name.clone(),
            dtype: e.dtype.name().to_uppercase(),
            shape: e.shape.clone(),
            offset: r.header().data_offset + e.offset,
            stored: r.get_tensor_data(name).unwrap().to_vec(),
            values: r.get_f32_tensor(name).unwrap_or_else(|| ids.iter().map(|&v| f32::from(v)).collect()),
        }
    }).collect();
    let md = serde_json::from_slice(&r.metadata().to_json().unwrap()).unwrap();
    readable(dir, "magic2.apr", &bytes, md, &tensors, &[]);
}
