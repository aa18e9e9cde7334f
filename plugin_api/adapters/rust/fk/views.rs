// SPDX-License-Identifier: Apache-2.0
//! Tensor views. A slice has all elements that the view can reach, gaps between rows included.
use crate::abi;
pub use crate::abi::{
    fk_comm as Comm, fk_host_in as HostIn, fk_in as In, fk_in_list as InList, fk_ints as Ints,
    fk_out as Out, fk_out_list as OutList,
};
use std::os::raw::c_void;

/// Bits of a bfloat16 or float16 number; floats.rs converts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Half(pub u16);

/// Types of elements, each with all bit patterns valid, and the dtype as in FK_DTYPE.
/// # Safety
/// The type has the dtype's size, and no invalid bit pattern.
pub unsafe trait Element: Copy + 'static {
    const DTYPE: i32;
}
macro_rules! element {
    ($($rust:ty = $dtype:ident),*) => {
        $(unsafe impl Element for $rust { const DTYPE: i32 = abi::$dtype; })*
    };
}
element!(f64 = F64, f32 = F32, Half = F16, Bf16 = BF16, i64 = I64, i32 = I32, i8 = I8, u8 = U8);

/// A dtype's name for sentences.
pub fn dtype_name(dtype: i32) -> &'static str {
    match dtype {
        abi::F64 => "f64",
        abi::F32 => "f32",
        abi::F16 => "f16",
        abi::BF16 => "bf16",
        abi::F8E4M3 => "f8e4m3",
        abi::F8E5M2 => "f8e5m2",
        abi::I64 => "i64",
        abi::I32 => "i32",
        abi::I8 => "i8",
        abi::U8 => "u8",
        abi::BOOL => "bool",
        _ => "an unknown dtype",
    }
}

// The bytes of a view as elements; empty without data, as in supports() and prepare().
#[track_caller]
unsafe fn elements<'v, T: Element>(data: *const c_void, nbytes: i64, found: i32, device: i32) -> &'v [T] {
    if data.is_null() || nbytes <= 0 {
        return &[];
    }
    assert!(device == abi::CPU, "the tensor is in the memory of a device");
    assert!(
        found == T::DTYPE,
        "the tensor has elements of {}, and {} was asked for",
        dtype_name(found),
        dtype_name(T::DTYPE)
    );
    std::slice::from_raw_parts(data as *const T, nbytes as usize / std::mem::size_of::<T>())
}

macro_rules! view {
    ($view:ty, $data:ident) => {
        impl $view {
            /// The packed dtype: fk::F32, fk::BF16 ...
            pub fn dtype(&self) -> i32 {
                self.dtype.code as i32 | (self.dtype.bits as i32) << 8
            }
            /// True for f32, bf16 and f16.
            pub fn is_float(&self) -> bool {
                matches!(self.dtype(), abi::F32 | abi::BF16 | abi::F16)
            }
            pub fn shape(&self) -> &[i64] {
                self.integers(self.shape)
            }
            /// In elements.
            pub fn strides(&self) -> &[i64] {
                self.integers(self.strides)
            }
            pub fn size(&self, axis: usize) -> usize {
                self.shape()[axis] as usize
            }
            pub fn stride(&self, axis: usize) -> usize {
                self.strides()[axis] as usize
            }
            /// Number of elements.
            pub fn numel(&self) -> usize {
                self.shape().iter().product::<i64>() as usize
            }
            /// Elements from the first to the last; a panic if the dtype is another.
            #[track_caller]
            pub fn slice<T: Element>(&self) -> &[T] {
                unsafe { elements(self.$data, self.nbytes, self.dtype(), self.device_type) }
            }
            fn integers(&self, at: *const i64) -> &[i64] {
                if self.ndim == 0 {
                    return &[];
                }
                unsafe { std::slice::from_raw_parts(at, self.ndim as usize) }
            }
        }
    };
}
view!(In, data);
view!(Out, data);

impl Out {
    #[track_caller]
    pub fn slice_mut<T: Element>(&mut self) -> &mut [T] {
        let (at, count) = {
            let all = self.slice::<T>();
            (all.as_ptr() as *mut T, all.len())
        };
        if count == 0 {
            return &mut [];
        }
        unsafe { std::slice::from_raw_parts_mut(at, count) }
    }
}
// A tensor of plan(), in host memory whatever the device is.
impl HostIn {
    pub fn size(&self, axis: usize) -> usize {
        assert!(axis < self.ndim as usize, "the tensor has {} axes", self.ndim);
        unsafe { *self.shape.add(axis) as usize }
    }
    #[track_caller]
    pub fn slice<T: Element>(&self) -> &[T] {
        let dtype = self.dtype.code as i32 | (self.dtype.bits as i32) << 8;
        unsafe { elements(self.host, self.nbytes, dtype, abi::CPU) }
    }
}

impl InList {
    pub fn len(&self) -> usize {
        self.n as usize
    }
    pub fn get(&self, at: usize) -> &In {
        assert!(at < self.len(), "the list has {} tensors", self.n);
        unsafe { &**self.at.add(at) }
    }
}
impl OutList {
    pub fn len(&self) -> usize {
        self.n as usize
    }
    pub fn get(&self, at: usize) -> &Out {
        assert!(at < self.len(), "the list has {} tensors", self.n);
        unsafe { &**self.at.add(at) }
    }
    pub fn get_mut(&mut self, at: usize) -> &mut Out {
        assert!(at < self.len(), "the list has {} tensors", self.n);
        unsafe { &mut *(*self.at.add(at) as *mut Out) }
    }
}
impl Ints {
    pub fn slice(&self) -> &[i64] {
        if self.n == 0 {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(self.at, self.n as usize) }
    }
}
