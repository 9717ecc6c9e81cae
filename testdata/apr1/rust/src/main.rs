//! Writes and reads APR1 files with the programs that the format comes from: the crates
//! whisper-apr and aprender. It holds no knowledge of the layouts itself, except where
//! their readers keep a position to themselves.
//!
//!     cargo run -- write ..        write the fixtures and what the readers say of them
//!     cargo run -- read FILE.apr   print what the reader of whisper-apr 0.1.1 says of a file

use serde_json::{json, Value};
use sha2::{Digest, Sha256};

fn sha(b: &[u8]) -> String {
    hex::encode(Sha256::digest(b))
}

fn le(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// n values without a short period, of both signs, none of them round.
fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| (((i * i * 7 + i * 13 + seed * 29) % 251) as f32 - 125.0) / 83.0).collect()
}

/// The shortest decimal that is nearest to x among binary32 numbers.
fn short(x: f32) -> Value {
    serde_json::from_str(&format!("{x:?}")).unwrap()
}

fn u32_at(b: &[u8], at: usize) -> usize {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]) as usize
}

/// One module for each version of whisper-apr: their types are not the same.
macro_rules! whisper {
    ($module:ident, $krate:ident, $version:expr) => {
        mod $module {
            use super::*;
            use $krate::format::*;
            use $krate::model::ModelConfig;
            use $krate::tokenizer::Vocabulary;

            const NAMES: [&str; 3] = ["encoder.conv1.weight", "encoder.conv1.bias", "decoder.scalar"];

            fn tensors() -> Vec<(String, Vec<usize>, Vec<f32>)> {
                vec![
                    (NAMES[0].into(), vec![3, 2, 3], values(18, 1)),
                    (NAMES[1].into(), vec![3], values(3, 2)),
                    (NAMES[2].into(), vec![], vec![-0.0]),
                    ("zeros".into(), vec![1, 1, 2, 2], vec![0.0; 4]),
                    // Longer than the 47 bytes that the writer keeps, the last of which is
                    // the first half of a character.
                    (format!("{}é.weight", "n".repeat(46)), vec![2], vec![1e-30, -2e30]),
                ]
            }

            fn vocabulary() -> Vocabulary {
                let mut v = Vocabulary::new();
                for t in [&b"<|endoftext|>"[..], b"", b" wor", b"ld", b"\x80", b"\xffa", "é".as_bytes(), b"a", b"a"] {
                    v.add_token(t.to_vec());
                }
                v.add_merge(b" wor".to_vec(), b"ld".to_vec());
                v.add_merge(b"\x80".to_vec(), b"a".to_vec());
                v
            }

            fn filterbank() -> MelFilterbankData {
                MelFilterbankData::new(3, 4, values(12, 9))
            }

            pub fn f32(full: bool) -> Vec<u8> {
                let mut w = AprWriter::from_config(&ModelConfig::tiny());
                for (name, shape, data) in tensors() {
                    w.add(name, shape, data);
                }
                if full {
                    w.set_vocabulary(vocabulary());
                    w.set_mel_filterbank(filterbank());
                }
                w.to_bytes().unwrap()
            }

            pub fn int8() -> Vec<u8> {
                let mut w = AprWriterInt8::from_config(&ModelConfig::large());
                for (name, shape, data) in tensors() {
                    w.add_tensor_f32(name, shape, &data);
                }
                w.set_vocabulary(vocabulary());
                w.set_mel_filterbank(filterbank());
                w.to_bytes().unwrap()
            }

            /// A file with the filterbank of Whisper itself, data/mel_80.bin of the crate.
            #[allow(dead_code)]
            pub fn mel80(raw: &[u8]) -> Vec<u8> {
                let data = raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
                let mut w = AprWriter::from_config(&ModelConfig::base());
                w.add("encoder.ln_post.bias", vec![4], values(4, 5));
                w.set_mel_filterbank(MelFilterbankData::mel_80(data));
                w.to_bytes().unwrap()
            }

            pub fn describe(file: &str, bytes: &[u8]) -> Value {
                let r = AprReader::new(bytes.to_vec()).unwrap();
                let h = &r.header;
                let int8 = h.quantization == Quantization::Int8;
                let width = h.quantization.bytes_per_element();
                let data = r.tensor_data_offset();
                let mut out = Vec::new();
                for (i, t) in r.tensors.iter().enumerate() {
                    let at = data + t.offset as usize;
                    let stored = &bytes[at..at + t.size as usize];
                    let mut d = json!({
                        "name": t.name, "dtype": if int8 { "I8" } else { "F32" }, "shape": t.shape(),
                        "offset": at, "stored": t.size, "raw": t.n_elements as usize * width, "encoding": "raw",
                        "zero_copy": at % width == 0, "stored_sha256": sha(stored), "raw_sha256": sha(stored),
                        "f32_hex": hex::encode(le(&r.load_tensor(&t.name).unwrap())),
                    });
                    if int8 {
                        let at = data - 4 * (r.n_tensors() - i);
                        d["scale"] = json!(f32::from_bits(u32_at(bytes, at) as u32));
                        d["zero_point"] = json!(0);
                    }
                    out.push(d);
                }
                let model = ["tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "medium.en", "large"];
                let mut md = json!({
                    "version": h.version, "model_type": model[h.model_type as usize],
                    "quantization": format!("{:?}", h.quantization).to_lowercase(), "compressed": h.compressed,
                    "n_vocab": h.n_vocab, "n_audio_ctx": h.n_audio_ctx, "n_audio_state": h.n_audio_state,
                    "n_audio_head": h.n_audio_head, "n_audio_layer": h.n_audio_layer, "n_text_ctx": h.n_text_ctx,
                    "n_text_state": h.n_text_state, "n_text_head": h.n_text_head, "n_text_layer": h.n_text_layer,
                    "n_mels": h.n_mels,
                });
                let mut at = data + r.tensors.iter().map(|t| t.size as usize).sum::<usize>();
                if let Some(v) = r.read_vocabulary() {
                    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                    md["vocab"] = (0..v.len()).map(|i| json!(text(v.get_bytes(i as u32).unwrap()))).collect();
                    md["merges"] = v.merge_rules().iter().map(|m| json!([text(&m.first), text(&m.second)])).collect();
                    let section = v.to_bytes();
                    assert_eq!(section, &bytes[at + 4..at + 4 + u32_at(bytes, at)]);
                    at += 4 + section.len();
                    md["vocab_bytes"] = json!(base64::Engine::encode(&base64::engine::general_purpose::STANDARD, section));
                }
                if let Some(fb) = r.read_mel_filterbank() {
                    at += 12;
                    let b = le(&fb.data);
                    assert_eq!(b, &bytes[at..at + b.len()]);
                    md["mel_filterbank"] = fb.data.iter().map(|x| short(*x)).collect();
                    md["mel_filterbank_shape"] = json!([fb.n_mels, fb.n_freqs]);
                    let mut d = json!({
                        "name": "mel_filterbank", "dtype": "F32", "shape": [fb.n_mels, fb.n_freqs],
                        "offset": at, "stored": b.len(), "raw": b.len(), "encoding": "raw", "zero_copy": at % 4 == 0,
                        "stored_sha256": sha(&b), "raw_sha256": sha(&b),
                    });
                    if b.len() < 1024 {
                        d["f32_hex"] = json!(hex::encode(&b));
                    } else {
                        d["f32_sha256"] = json!(sha(&b));
                    }
                    out.push(d);
                }
                let cut = r.tensors.iter().filter(|t| t.name.ends_with('\u{FFFD}')).map(|_| "name");
                json!({
                    "file": file, "format": "apr1", "version": h.version.to_string(), "size": r.file_size(),
                    "metadata": md, "tensors": out, "verify": "ok", "findings": cut.collect::<Vec<_>>(),
                    "written_by": concat!("whisper-apr ", $version),
                    "given_f32_hex": tensors().iter().map(|t| hex::encode(le(&t.2))).collect::<Vec<_>>(),
                })
            }
        }
    };
}

whisper!(seed, whisper01, "0.1.1");
whisper!(late, whisper02, "0.2.4");

mod container {
    use super::*;
    use aprender::serialization::apr::{AprReader, AprWriter};

    pub fn whisper() -> Vec<u8> {
        let mut w = AprWriter::new();
        w.set_metadata("model_type", json!("whisper-tiny"));
        w.set_metadata("n_mels", json!(2));
        w.set_metadata("vocab", json!(["<|endoftext|>", "é", "\u{0120}world"]));
        w.set_metadata("mel_filterbank", json!(values(6, 4)));
        w.set_metadata("mel_filterbank_shape", json!([2, 3]));
        w.set_metadata("nested", json!({"a": [1, 2.5, null, true, {"b": "c"}]}));
        w.add_tensor_f32("encoder.weight", vec![2, 3], &values(6, 1));
        w.add_tensor_f32("\"quoted\"\té", vec![1], &values(1, 2));
        w.add_tensor_f32("scalar", vec![], &[f32::MIN_POSITIVE]);
        w.add_tensor_f32("empty", vec![0, 4], &[]);
        w.to_bytes().unwrap()
    }

    pub fn empty() -> Vec<u8> {
        AprWriter::new().to_bytes().unwrap()
    }

    pub fn describe(file: &str, bytes: &[u8]) -> Value {
        let r = AprReader::from_bytes(bytes.to_vec()).unwrap();
        let index = 8 + u32_at(bytes, 4) + 4;
        let data = index + 4 + u32_at(bytes, index);
        let mut out = Vec::new();
        for t in &r.tensors {
            let at = data + t.offset;
            let stored = &bytes[at..at + t.size];
            out.push(json!({
                "name": t.name, "dtype": t.dtype, "shape": t.shape, "offset": at, "stored": t.size, "raw": t.size,
                "encoding": "raw", "zero_copy": at % 4 == 0, "stored_sha256": sha(stored), "raw_sha256": sha(stored),
                "f32_hex": hex::encode(le(&r.read_tensor_f32(&t.name).unwrap())),
            }));
        }
        json!({
            "file": file, "format": "apr1", "version": "json", "size": bytes.len(), "metadata": r.metadata,
            "tensors": out, "verify": "ok", "findings": [], "written_by": "aprender 0.24.1",
        })
    }
}

fn write(dir: &str, name: &str, bytes: Vec<u8>, describe: fn(&str, &[u8]) -> Value) {
    let file = format!("{name}.apr");
    let described = describe(&file, &bytes);
    let long = bytes.len() > 10_000;
    let text = if long { serde_json::to_string(&described) } else { serde_json::to_string_pretty(&described) }.unwrap();
    std::fs::write(format!("{dir}/{file}"), bytes).unwrap();
    std::fs::write(format!("{dir}/{name}.json"), text + "\n").unwrap();
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args[1].as_str() {
        "write" => {
            let dir = &args[2];
            write(dir, "whisper_f32", seed::f32(true), seed::describe);
            write(dir, "whisper_bare", seed::f32(false), seed::describe);
            write(dir, "whisper_int8", seed::int8(), seed::describe);
            if let Some(mel) = args.get(3) {
                write(dir, "whisper_mel80", seed::mel80(&std::fs::read(mel).unwrap()), seed::describe);
            }
            write(dir, "late_f32", late::f32(true), late::describe);
            write(dir, "late_int8", late::int8(), late::describe);
            write(dir, "json_whisper", container::whisper(), container::describe);
            write(dir, "json_empty", container::empty(), container::describe);
        }
        "read" => {
            let bytes = std::fs::read(&args[2]).unwrap();
            println!("{}", serde_json::to_string_pretty(&seed::describe(&args[2], &bytes)).unwrap());
        }
        _ => panic!("write DIR [mel_80.bin] or read FILE"),
    }
}
