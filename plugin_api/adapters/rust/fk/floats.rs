// SPDX-License-Identifier: Apache-2.0
//! Conversion between f32 and the three dtypes of a contract's `float`: f32, bf16 and f16. Kernels
//! compute in f32, read with load(), and write with store(), which rounds to nearest, ties to even.
use crate::abi;
use crate::views::{Bf16, Half, In, Out};

impl From<Bf16> for f32 {
    fn from(value: Bf16) -> f32 {
        f32::from_bits((value.0 as u32) << 16)
    }
}
impl From<f32> for Bf16 {
    fn from(value: f32) -> Bf16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return Bf16((bits >> 16) as u16 | 0x40);
        }
        Bf16(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }
}
impl From<Half> for f32 {
    fn from(value: Half) -> f32 {
        // Shifted into f32's fields, the bits mean the value times 2^-112, subnormals included.
        let sign = (value.0 as u32 & 0x8000) << 16;
        let magnitude = f32::from_bits((value.0 as u32 & 0x7fff) << 13) * 5192296858534827628530496329220096.0;
        let infinite = if value.0 & 0x7c00 == 0x7c00 { 0x7f800000 } else { 0 };
        f32::from_bits(magnitude.to_bits() | infinite | sign)
    }
}
impl From<f32> for Half {
    fn from(value: f32) -> Half {
        let bits = value.to_bits();
        let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fffffff);
        if value.is_nan() {
            return Half(sign | 0x7e00);
        }
        if magnitude >= 0x477ff000 {
            return Half(sign | 0x7c00); // 65520 and above: infinity
        }
        if magnitude < 0x38800000 {
            // Below 2^-14 the sum with 0.5 rounds, and its low bits are the subnormal number.
            let sum = f32::from_bits(magnitude) + 0.5;
            return Half(sign | (sum.to_bits() - 0x3f000000) as u16);
        }
        Half(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13) as u16)
    }
}

/// Elements [at, at + to.len()) of a float view, as f32. A panic beyond the view's end.
#[track_caller]
pub fn load(view: &In, at: usize, to: &mut [f32]) {
    let end = at + to.len();
    match view.dtype() {
        abi::BF16 => to.iter_mut().zip(&view.slice::<Bf16>()[at..end]).for_each(|(to, &x)| *to = x.into()),
        abi::F16 => to.iter_mut().zip(&view.slice::<Half>()[at..end]).for_each(|(to, &x)| *to = x.into()),
        _ => to.copy_from_slice(&view.slice::<f32>()[at..end]),
    }
}
/// The same for a view that is also written.
#[track_caller]
pub fn load_out(view: &Out, at: usize, to: &mut [f32]) {
    // Both views have one layout (fk/tensor.h).
    load(unsafe { &*(view as *const Out as *const In) }, at, to)
}
/// The inverse of load().
#[track_caller]
pub fn store(view: &mut Out, at: usize, from: &[f32]) {
    let end = at + from.len();
    match view.dtype() {
        abi::BF16 => view.slice_mut::<Bf16>()[at..end].iter_mut().zip(from).for_each(|(to, &x)| *to = x.into()),
        abi::F16 => view.slice_mut::<Half>()[at..end].iter_mut().zip(from).for_each(|(to, &x)| *to = x.into()),
        _ => view.slice_mut::<f32>()[at..end].copy_from_slice(from),
    }
}
