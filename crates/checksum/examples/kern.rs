fn main(){ ashlar_checksum::bench_kernels(); 
use md5::Digest; let d=vec![7u8;1<<20]; assert_eq!(ashlar_checksum::md5_once(b"abc"), *<md5::Md5 as Digest>::digest(b"abc"));
let t=std::time::Instant::now(); for _ in 0..100 { std::hint::black_box(md5::Md5::digest(&d)); } println!("md-5 {:.3} s/GiB", t.elapsed().as_secs_f64()*10.24);
let t=std::time::Instant::now(); for _ in 0..100 { std::hint::black_box(ashlar_checksum::md5_once(&d)); } println!("md5_once {:.3} s/GiB", t.elapsed().as_secs_f64()*10.24);
}
