//! MD5 of many uploads at once, in SIMD lanes.
mod compress;
mod kernel;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod state;
#[cfg(target_arch = "x86_64")]
mod x86;
use kernel::Kernel;
use state::Md5;
/// MD5 (RFC 1321) of `data`, hashed here and now on one lane.
pub fn md5_once(data: &[u8]) -> [u8; 16] {
    let mut md5 = Md5::new();
    md5.update(data);
    md5.finish()
}
/// bench
#[doc(hidden)]
pub fn bench_kernels() {
    let data: Vec<Vec<u8>> = (0..16).map(|_| vec![7u8; 64 * 1024+64]).collect();
    for k in Kernel::all() {
        for n in [1usize, 2, 8, 9, 16] {
            let mut st = kernel::States::new();
            let lanes: Vec<&[u8]> = data[..n].iter().map(|d| &d[1..65537]).collect();
            for _ in 0..3 { k.hash_lanes(&mut st, &lanes, 1024);}
            let t = std::time::Instant::now();
            let iters = 256;
            for _ in 0..iters { k.hash_lanes(&mut st, &lanes, 1024); }
            let s = t.elapsed().as_secs_f64();
            let bytes = iters as f64 * n as f64 * 65536.0;
            println!("{:10} {n:2} lanes: {:.3} GB/s {:.3} s/GiB", k.name, bytes / s / 1e9, s / (bytes / (1u64<<30) as f64));
        }
    }
}
