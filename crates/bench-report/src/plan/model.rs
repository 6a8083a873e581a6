//! The hardware model: formulas M1 to M12, each one function of numbers.
//!
//! Units: rates in bytes per second, times in seconds, unless the name says otherwise. Invariants: no formula
//! depends on a product or a published result; fitted values are parameters of the caller.
//!
//! Must not depend on: profiles, results, their presentation.

/// M1: what a port of `bits_per_s` carries of payload, in packets of `payload` bytes with `header`
/// bytes of overhead on the wire each.
pub fn port_payload(bits_per_s: f64, payload: f64, header: f64) -> f64 {
    bits_per_s / 8.0 * payload / (payload + header)
}

/// M2: operations per second of `devices` drives that take `read_s` and `write_s` per device I/O, for a
/// host operation of so many device reads and writes. An additive service-time model.
pub fn device_iops(devices: f64, reads: f64, writes: f64, read_s: f64, write_s: f64) -> f64 {
    devices / (reads * read_s + writes * write_s)
}

/// M3: operations per second through `ports` that pass `cap` I/Os per second each.
pub fn port_iops(ports: f64, cap: f64, device_ios: f64) -> f64 {
    ports * cap / device_ios
}

/// M4: sequential writing through parity; `efficiency` is 1 where nothing is known against it.
pub fn sequential_write(raw: f64, k: f64, m: f64, efficiency: f64) -> f64 {
    raw * k / (k + m) * efficiency
}

/// M5: sequential reading by an engine that moves 4 KiB at a time.
pub fn pipeline_4k(iops: f64) -> f64 {
    iops * 4096.0
}

/// M6: what all drives give to GET (`share` 1) or PUT (`share` k/(k+m)).
pub fn drives(nodes: f64, drives: f64, rate: f64, share: f64) -> f64 {
    nodes * drives * rate * share
}

/// What a node's network moves per useful byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Received.
    pub receive: f64,
    /// Sent.
    pub send: f64,
}

impl Traffic {
    /// What binds a full-duplex interface.
    pub fn full_duplex(self) -> f64 {
        self.receive.max(self.send)
    }
}

/// M7 for PUT over one interface: the client's byte comes in; (k+m)/k bytes leave for other nodes, but
/// for the share that stays, and as many arrive from the others.
pub fn put_traffic(k: f64, m: f64, local: f64) -> Traffic {
    let between = (k + m) / k * (1.0 - local);
    Traffic { receive: 1.0 + between, send: between }
}

/// M7 for GET over one interface: k shards make a byte, the share that is not local arrives from other
/// nodes; the byte leaves for the client, and as much leaves for the others' GETs.
pub fn get_traffic(local: f64) -> Traffic {
    Traffic { receive: 1.0 - local, send: 2.0 - local }
}

/// M7 with one interface for clients and another one between the nodes: the larger of the two.
pub fn separate_networks(between: f64) -> f64 {
    between.max(1.0)
}

/// M8: a SAS host bus adapter: `lanes` of 1.2 GB/s, its PCIe slot, the disks behind it.
pub fn sas(lanes: f64, pcie: f64, disks: f64) -> f64 {
    (lanes * 1.2e9).min(pcie).min(disks)
}

/// M9: an accelerator that stages data: data goes down, m/k as much parity comes up, both pass through
/// its memory.
pub fn staging(pcie_down: f64, pcie_up: f64, memory: f64, k: f64, m: f64) -> f64 {
    let up = if m > 0.0 { pcie_up * k / m } else { f64::INFINITY };
    pcie_down.min(up).min(memory / (1.0 + m / k))
}

/// M10: bytes through DRAM per byte written as whole stripes.
pub fn dram_bytes_per_byte(k: f64) -> f64 {
    3.0 + 2.0 / k
}

/// M10: bytes through DRAM per byte written as a part of a stripe, about.
pub const DRAM_PARTIAL: f64 = 10.0;

/// M11: operations per second per CPU per cent.
pub fn per_cpu(iops: f64, cpu_percent: f64) -> f64 {
    iops / cpu_percent
}

/// M11: CPU used in one state relative to another.
pub fn cpu_ratio(iops_ratio: f64, efficiency_ratio: f64) -> f64 {
    iops_ratio / efficiency_ratio
}

/// M12: seconds to rebuild `capacity` bytes onto one spare from the others.
pub fn rebuild(capacity: f64, spare_write: f64, others_read: f64) -> f64 {
    capacity / spare_write.min(others_read)
}

/// M12 under load: for the first `loaded_s` seconds the rebuild gets only `share` of the idle rate.
pub fn rebuild_under_load(capacity: f64, rate: f64, share: f64, loaded_s: f64) -> f64 {
    let loaded = share * rate * loaded_s;
    if loaded >= capacity { capacity / (share * rate) } else { loaded_s + (capacity - loaded) / rate }
}

/// M12 declustered: a drive of `capacity` in a cell of `n` drives, groups of `g` drives, each drive
/// giving `rate` bytes per second to the rebuild.
pub fn rebuild_declustered(capacity: f64, g: f64, n: f64, rate: f64) -> f64 {
    capacity * g / ((n - 1.0) * rate)
}

/// Device reads and writes per host read and write of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amplification {
    /// Device reads per host read.
    pub read_reads: f64,
    /// Device reads per host write.
    pub write_reads: f64,
    /// Device writes per host write.
    pub write_writes: f64,
    /// Share of the devices that is left.
    pub devices: f64,
}

impl Amplification {
    /// No parity.
    pub const NONE: Amplification =
        Amplification { read_reads: 1.0, write_reads: 0.0, write_writes: 1.0, devices: 1.0 };

    /// Parity, all devices there: a small write reads and writes the data block and m parities.
    pub fn nominal(m: f64) -> Amplification {
        Amplification { read_reads: 1.0, write_reads: 1.0 + m, write_writes: 1.0 + m, devices: 1.0 }
    }

    /// k+1 with one device of every group down. A read of the lost device reads the k others. A write
    /// to a lost data block reads the k-1 other data blocks and writes the parity; one whose parity is
    /// lost writes the data block; any other is as in [`Amplification::nominal`].
    pub fn one_down(k: f64) -> Amplification {
        let n = k + 1.0;
        let whole = (n - 2.0) / n;
        Amplification {
            read_reads: (n - 1.0) / n + k / n,
            write_reads: 2.0 * whole + (k - 1.0) / n,
            write_writes: 2.0 * whole + 2.0 / n,
            devices: (n - 1.0) / n,
        }
    }

    /// (reads, writes) per host operation of which the share `read` reads.
    pub fn mix(self, read: f64) -> (f64, f64) {
        let write = 1.0 - read;
        (read * self.read_reads + write * self.write_reads, write * self.write_writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn formulas_match_known_answers() {
        close(port_payload(100e9, 2048.0, 82.0), 12.5e9 * 2048.0 / 2130.0);
        close(put_traffic(14.0, 4.0, 1.0 / 18.0).receive, 1.0 + 17.0 / 14.0);
        close(put_traffic(12.0, 4.0, 1.0 / 6.0).full_duplex(), 1.0 + 10.0 / 9.0);
        close(separate_networks(put_traffic(12.0, 4.0, 1.0 / 6.0).send), 10.0 / 9.0);
        close(get_traffic(1.0).full_duplex(), 1.0);
        close(dram_bytes_per_byte(4.0), 3.5);
        close(sas(8.0, 6.4e9, 20.0 * 250e6), 5e9);
        close(staging(12e9, 12e9, 100e9, 4.0, 4.0), 12e9);
        close(staging(12e9, 2e9, 100e9, 4.0, 2.0), 4e9);
        let down = Amplification::one_down(7.0);
        assert_eq!((down.read_reads, down.write_reads, down.write_writes), (1.75, 2.25, 1.75));
        assert_eq!(Amplification::nominal(1.0).mix(0.0), (2.0, 2.0));
        close(rebuild(1e12, 1e9, 5e8), 2000.0);
        close(rebuild_under_load(1e12, 1e9, 0.5, 1e6), 2000.0);
        close(rebuild_under_load(1e12, 1e9, 0.5, 1000.0), 1500.0);
        close(rebuild_declustered(1e12, 8.0, 81.0, 1e8), 1000.0);
        close(per_cpu(1e6, 50.0), 2e4);
        close(cpu_ratio(0.5, 2.0), 0.25);
    }
}
