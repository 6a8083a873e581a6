//! Student's t and the normal distribution.
//!
//! The incomplete beta function is evaluated by its continued fraction (Abramowitz and Stegun
//! 26.5.8), the error function by its series near zero and its continued fraction (7.1.5, 7.1.14)
//! elsewhere, ln Gamma by Stirling's series (6.1.41). Checked against scipy to 1e-9.

use std::f64::consts::PI;

/// ln Gamma(x), x > 0.
fn ln_gamma(x: f64) -> f64 {
    // Stirling's series is exact enough from 10 on; below, Gamma(x) = Gamma(x + 1) / x.
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r / 1680.0))) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series
}

/// The regularised incomplete beta function I_x(a, b).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only below the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() - (ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b))).exp() / a;
    let term = |i: usize| {
        let m = (i / 2) as f64;
        if i.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    // 1 / (1 + d1 / (1 + d2 / ...)), by the modified method of Lentz.
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut f, mut c, mut d) = (1.0, 1.0, 0.0);
    for i in 1..500 {
        let t = term(i);
        d = 1.0 / guard(1.0 + t * d);
        c = guard(1.0 + t / c);
        f *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front / f
}

/// P(T <= t) of Student's t with `df` degrees of freedom.
pub fn t_cdf(t: f64, df: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(df / (df + t * t), df / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The t with P(T <= t) = `p`, for 0.5 <= `p` < 1, by bisection.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    assert!((0.5..1.0).contains(&p) && df > 0.0, "p {p}, df {df}");
    let (mut low, mut high) = (0.0, 2.0);
    while t_cdf(high, df) < p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if t_cdf(middle, df) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// P(Z > z) of the standard normal distribution.
pub fn normal_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    if z < 3.0 {
        // 1/2 + density * (z + z^3/3 + z^5/15 + ...) is P(Z <= z).
        let (mut term, mut sum, mut n) = (z, z, 1.0);
        while term > 1e-18 * sum {
            n += 2.0;
            term *= z * z / n;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // density / (z + 1/(z + 2/(z + 3/...)))
    let fraction = (1..120).rev().fold(z, |f, k| z + f64::from(k) / f);
    density / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_t_matches_scipy() {
        let known = [
            (1.0, 12.706204736174694),
            (2.0, 4.302652729749462),
            (3.0, 3.1824463052837078),
            (5.0, 2.5705818356363146),
            (10.0, 2.228138851986274),
            (29.0, 2.045229642132703),
            (100.0, 1.9839715185235518),
            (1000.0, 1.9623390808264083),
        ];
        for (df, t) in known {
            let found = t_quantile(0.975, df);
            assert!((found - t).abs() < 1e-8 * t, "df {df}: {found}, not {t}");
        }
        for (t, df, p) in
            [(2.0, 5.0, 0.9490302605850708), (0.5, 3.0, 0.6742760175759245), (4.2, 12.0, 0.9993840498864386)]
        {
            assert!((t_cdf(t, df) - p).abs() < 1e-11, "t {t}, df {df}: {}", t_cdf(t, df));
            assert!((t_cdf(-t, df) - (1.0 - p)).abs() < 1e-11);
        }
    }

    #[test]
    fn normal_matches_scipy() {
        let known = [
            (0.0, 0.5),
            (0.1, 0.460172162722971),
            (1.0, 0.15865525393145707),
            (1.96, 0.024997895148220435),
            (3.5, 0.00023262907903552502),
            (6.0, 9.865876450376946e-10),
        ];
        for (z, p) in known {
            assert!((normal_tail(z) - p).abs() < 1e-10 * p, "z {z}: {}", normal_tail(z));
            assert!((normal_tail(-z) - (1.0 - p)).abs() < 1e-12);
        }
    }
}
