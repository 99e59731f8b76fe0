;; The product of a network's layer: y (T, 8 P) = x (T, D) times P panels (D, 8), all float32.
;; A panel holds 8 outputs: for every channel d its 8 weights side by side, so that two SIMD
;; registers of 4 numbers take them in at once. Four rows of x go through a panel together, and the
;; 32 sums that they make stay in registers; rows that are left over go one by one.
;; book/tools/kernel.py compiles this file into matmul.js.
(module
  (memory (export "memory") 1)

  ;; x, w, y: byte offsets. Rows of x follow one another, panels of w too, and rows of y.
  (func (export "multiply")
    (param $x i32) (param $w i32) (param $y i32) (param $T i32) (param $D i32) (param $P i32)
    (local $p i32) (local $t i32) (local $d i32)
    (local $row i32) (local $out i32)         ;; bytes of a row of x and of y
    (local $at i32) (local $panel i32) (local $to i32)
    (local $low v128) (local $high v128) (local $v v128)
    (local $a0 v128) (local $a1 v128) (local $b0 v128) (local $b1 v128)
    (local $c0 v128) (local $c1 v128) (local $d0 v128) (local $d1 v128)
    (local.set $row (i32.shl (local.get $D) (i32.const 2)))
    (local.set $out (i32.shl (local.get $P) (i32.const 5)))
    (loop $panels
      (local.set $t (i32.const 0))
      (block $rows_done
        (loop $rows
          (br_if $rows_done (i32.ge_s (local.get $t) (local.get $T)))
          (local.set $at (i32.add (local.get $x) (i32.mul (local.get $t) (local.get $row))))
          (local.set $to (i32.add (i32.add (local.get $y) (i32.mul (local.get $t) (local.get $out)))
            (i32.shl (local.get $p) (i32.const 5))))
          (local.set $panel (local.get $w))
          (local.set $d (local.get $D))
          (local.set $a0 (v128.const i32x4 0 0 0 0))
          (local.set $a1 (v128.const i32x4 0 0 0 0))
          (if (i32.le_s (i32.add (local.get $t) (i32.const 4)) (local.get $T))
            (then
              (local.set $b0 (v128.const i32x4 0 0 0 0))
              (local.set $b1 (v128.const i32x4 0 0 0 0))
              (local.set $c0 (v128.const i32x4 0 0 0 0))
              (local.set $c1 (v128.const i32x4 0 0 0 0))
              (local.set $d0 (v128.const i32x4 0 0 0 0))
              (local.set $d1 (v128.const i32x4 0 0 0 0))
              (loop $channels
                (local.set $low (v128.load (local.get $panel)))
                (local.set $high (v128.load offset=16 (local.get $panel)))
                (local.set $v (v128.load32_splat (local.get $at)))
                (local.set $a0 (f32x4.add (local.get $a0) (f32x4.mul (local.get $v) (local.get $low))))
                (local.set $a1 (f32x4.add (local.get $a1) (f32x4.mul (local.get $v) (local.get $high))))
                (local.set $v (v128.load32_splat (i32.add (local.get $at) (local.get $row))))
                (local.set $b0 (f32x4.add (local.get $b0) (f32x4.mul (local.get $v) (local.get $low))))
                (local.set $b1 (f32x4.add (local.get $b1) (f32x4.mul (local.get $v) (local.get $high))))
                (local.set $v (v128.load32_splat
                  (i32.add (local.get $at) (i32.shl (local.get $row) (i32.const 1)))))
                (local.set $c0 (f32x4.add (local.get $c0) (f32x4.mul (local.get $v) (local.get $low))))
                (local.set $c1 (f32x4.add (local.get $c1) (f32x4.mul (local.get $v) (local.get $high))))
                (local.set $v (v128.load32_splat
                  (i32.add (local.get $at) (i32.mul (local.get $row) (i32.const 3)))))
                (local.set $d0 (f32x4.add (local.get $d0) (f32x4.mul (local.get $v) (local.get $low))))
                (local.set $d1 (f32x4.add (local.get $d1) (f32x4.mul (local.get $v) (local.get $high))))
                (local.set $at (i32.add (local.get $at) (i32.const 4)))
                (local.set $panel (i32.add (local.get $panel) (i32.const 32)))
                (br_if $channels (local.tee $d (i32.sub (local.get $d) (i32.const 1)))))
              (v128.store (local.get $to) (local.get $a0))
              (v128.store offset=16 (local.get $to) (local.get $a1))
              (local.set $to (i32.add (local.get $to) (local.get $out)))
              (v128.store (local.get $to) (local.get $b0))
              (v128.store offset=16 (local.get $to) (local.get $b1))
              (local.set $to (i32.add (local.get $to) (local.get $out)))
              (v128.store (local.get $to) (local.get $c0))
              (v128.store offset=16 (local.get $to) (local.get $c1))
              (local.set $to (i32.add (local.get $to) (local.get $out)))
              (v128.store (local.get $to) (local.get $d0))
              (v128.store offset=16 (local.get $to) (local.get $d1))
              (local.set $t (i32.add (local.get $t) (i32.const 4))))
            (else
              (loop $channels
                (local.set $v (v128.load32_splat (local.get $at)))
                (local.set $a0 (f32x4.add (local.get $a0)
                  (f32x4.mul (local.get $v) (v128.load (local.get $panel)))))
                (local.set $a1 (f32x4.add (local.get $a1)
                  (f32x4.mul (local.get $v) (v128.load offset=16 (local.get $panel)))))
                (local.set $at (i32.add (local.get $at) (i32.const 4)))
                (local.set $panel (i32.add (local.get $panel) (i32.const 32)))
                (br_if $channels (local.tee $d (i32.sub (local.get $d) (i32.const 1)))))
              (v128.store (local.get $to) (local.get $a0))
              (v128.store offset=16 (local.get $to) (local.get $a1))
              (local.set $t (i32.add (local.get $t) (i32.const 1)))))
          (br $rows)))
      (local.set $w (i32.add (local.get $w) (i32.shl (local.get $row) (i32.const 3))))
      (br_if $panels (i32.lt_s (local.tee $p (i32.add (local.get $p) (i32.const 1))) (local.get $P))))))
